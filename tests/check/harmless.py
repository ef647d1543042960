"""Flags of vLLM's engine that leave the memory of a GPU as it is, and why: what is in no other table must be here.

Source: vLLM 0.33 engine/arg_utils.py and config; flags of earlier releases by their own.
"""

from __future__ import annotations

from collections.abc import Mapping

_BY_REASON: Mapping[str, str] = {
    "names, tokenizers and templates, on the host": """
        tokenizer tokenizer-mode tokenizer-revision code-revision trust-remote-code served-model-name hf-token skip-tokenizer-init
        renderer-num-workers generation-config override-generation-config chat-template-text-format interleave-mm-strings
        allowed-local-media-path allowed-media-domains io-processor-plugin tokenizer-pool-size tokenizer-pool-type
        tokenizer-pool-extra-config image-feature-size image-input-type image-token-id""",
    "how files are read, not what is kept of them": """
        download-dir safetensors-load-strategy safetensors-prefetch-num-threads safetensors-prefetch-block-size use-tqdm-on-load
        model-loader-extra-config ignore-patterns pt-load-map-location max-parallel-loading-workers enable-ep-weight-filter""",
    "a permission": "allow-deprecated-quantization enable-mm-embeds",
    "what answers say, and how they are parsed": """
        max-logprobs logprobs-mode pooler-config override-pooler-config reasoning-parser reasoning-parser-plugin enable-reasoning
        reasoning-config structured-outputs-config guided-decoding-backend guided-decoding-disable-additional-properties
        guided-decoding-disable-any-whitespace guided-decoding-disable-fallback logits-processor-pattern seed watermark-config""",
    "logs and measurements": """
        disable-log-stats disable-log-requests enable-log-requests aggregate-engine-logging log-level log-config-file logging-config
        show-hidden-metrics-for-version otlp-traces-endpoint collect-detailed-traces per-request-spec-decode-metrics kv-cache-metrics
        kv-cache-metrics-sample custom-histogram-buckets cudagraph-metrics enable-layerwise-nvtx-tracing enable-mfu-metrics
        enable-logging-iteration-details jit-monitor-mode jit-monitor-verbose profiler-config ray-workers-use-nsight
        eplb-log-balancedness""",
    "where processes run and how they find and watch each other": """
        distributed-executor-backend worker-use-ray engine-use-ray master-addr master-port nnodes node-rank numa-bind numa-bind-nodes
        numa-bind-cpus distributed-timeout-seconds cpu-distributed-timeout-seconds data-parallel-rank data-parallel-start-rank
        data-parallel-size-local data-parallel-address data-parallel-rpc-port data-parallel-backend data-parallel-hybrid-lb
        data-parallel-external-lb data-parallel-multi-port-external-lb dp-sync-interval disable-nccl-for-dp-synchronization
        enable-fault-tolerance fault-tolerance-config watchdog-config shutdown-timeout fail-on-environ-validation
        disable-frontend-multiprocessing""",
    "which GPUs are used: how many is held against the parallel sizes": "device-ids",
    "which kind of device: held against the GPU": "device override-neuron-config",
    "another name of gpu-memory-utilization": "device-memory-utilization",
    "kernels that read and write the same memory": """
        disable-cascade-attn mamba-backend mamba-ssu-algorithm gdn-prefill-backend kda-prefill-backend kda-decode-backend
        enable-flashinfer-autotune ir-op-priority sparse-indexer-topk-backend dcp-comm-backend full-cuda-graph""",
    "how numbers are rounded or scaled, not how many are kept": """
        enable-mamba-cache-stochastic-rounding mamba-cache-philox-rounds calculate-kv-scales quantization-param-path rope-theta
        mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path mm-encoder-fp8-scale-save-margin""",
    "memory of the host": """
        swap-space mm-processor-cache-gb mm-processor-cache-type mm-shm-cache-max-object-size-mb mm-hasher-algorithm
        disable-mm-preprocessor-cache mm-cache-preprocessor enable-shm-tensor-arena max-cpu-loras prefix-caching-hash-algo prefix-match-unit
        preemption-mode block-manager-cls use-v2-block-manager""",
    "in what order requests are served, within the same steps": """
        scheduling-policy stream-interval long-prefill-token-threshold long-prefill-token-threshold-adaptive prefill-schedule-interval
        scheduler-reserve-full-isl max-num-queued-reqs max-num-queued-tokens max-num-partial-prefills max-long-partial-prefills
        scheduler-delay-factor disable-async-output-proc multi-step-stream-outputs""",
    "a part of something that --enable-sleep-mode switches on, and that is warned about there": """
        sleep-mode-backend sleep-mode-offload-cudagraph sleep-preserve-parameter-names enable-nccl-comm-suspend""",
    "a part of offloading weights, which is warned about where a size is given": """
        offload-backend cpu-offload-params offload-num-in-group offload-prefetch-step offload-params""",
    "a part of what --enable-dbo, --enable-elastic-ep, --enable-eplb or --use-replayssm switches on": """
        dbo-decode-token-threshold dbo-prefill-token-threshold elastic-ep-max-dp-size eplb-step-interval eplb-window-size
        replayssm-buffer-len""",
    "a part of the server's front end": "expand-tools-even-if-tool-choice-none",
    "a part of adapters, which are counted where --enable-lora is given": "default-mm-loras",
    "a part of what --enable-prompt-adapter switches on": "max-prompt-adapters max-prompt-adapter-token prompt-adapters",
    "which rank holds which experts: each holds as many": "expert-placement-strategy",
    "a few MiB of communication buffers less than are counted": "disable-custom-all-reduce",
    "how long sequences are that CUDA graphs serve, not how many graphs there are": """
        max-context-len-to-capture max-seq-len-to-capture""",
    "how drafted tokens are found in the text and accepted": """
        ngram-prompt-lookup-max ngram-prompt-lookup-min spec-decoding-acceptance-method speculative-disable-by-batch-size
        speculative-disable-mqa-scorer typical-acceptance-sampler-posterior-alpha typical-acceptance-sampler-posterior-threshold
        disable-logprobs-during-spec-decoding""",
}

HARMLESS: Mapping[str, str] = {name: why for why, names in _BY_REASON.items() for name in names.split()}
"""Why each flag, by its name without dashes, leaves memory as it is."""
