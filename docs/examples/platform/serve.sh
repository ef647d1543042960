#!/bin/sh
exec vllm serve meta-llama/Llama-3.1-8B-Instruct \
  --max-model-len 8192 \
  --kv-cache-dtype fp8
