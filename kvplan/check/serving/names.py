"""Names of `vllm serve` flags, and how many words follow each: what is needed to read a command line without vLLM.

Source: the parser of vLLM 0.33 (entrypoints/common/cli_args.py, engine/arg_utils.py), and for GONE the documented flags
of 0.6 to 0.32 that it no longer has.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SWITCHES = _names("""
    aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling
    cohere-is-reasoning-model cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb
    data-parallel-multi-port-external-lb dcp-q-replicate disable-cascade-attn disable-chunked-mm-input
    disable-custom-all-reduce disable-fastapi-docs disable-hybrid-kv-cache-manager disable-log-stats
    disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log
    enable-auto-tool-choice enable-batch-sharded-sampling enable-chunked-prefill enable-cumem-allocator
    enable-dbo enable-elastic-ep enable-ep-weight-filter enable-eplb enable-expert-parallel
    enable-fault-tolerance enable-flash-late-interaction enable-flashinfer-autotune enable-force-include-usage
    enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs enable-log-requests
    enable-logging-iteration-details enable-lora enable-mamba-cache-stochastic-rounding
    enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
    enable-moe-shared-loras enable-nccl-comm-suspend enable-offline-docs enable-per-request-metrics
    enable-prefix-caching enable-prompt-embeds enable-prompt-tokens-details enable-request-id-headers
    enable-return-routed-experts enable-scale-out enable-server-load-tracking enable-shm-tensor-arena
    enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint enable-tower-connector-lora
    enable-trace-replay enforce-eager exclude-tools-when-tool-choice-none fail-on-environ-validation
    fully-sharded-loras grpc headless interleave-mm-strings jit-monitor-verbose kv-cache-metrics
    kv-sharing-fast-prefill language-model-only log-error-stack long-prefill-token-threshold-adaptive
    mm-device-do-normalize mm-encoder-only numa-bind ray-workers-use-nsight return-sampling-mask
    return-tokens-as-token-ids scheduler-reserve-full-isl skip-mm-profiling skip-tokenizer-init
    sleep-mode-offload-cudagraph specialize-active-lora swa-bounded-replay tokens-only trust-remote-code
    trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel use-replayssm use-tqdm-on-load
""")
"""Flags without a value; `--no-NAME` turns one off."""

SEVERAL = _names("""
    allowed-media-domains api-key collect-detailed-traces cpu-offload-params cudagraph-capture-sizes
    ignore-patterns kv-cache-dtype-skip-layers logits-processors lora-modules lora-target-modules
    numa-bind-cpus numa-bind-nodes offload-params served-model-name sleep-preserve-parameter-names
""")
"""Flags that take every word up to the next flag."""

VALUED = _names("""
    additional-config all2all-backend allowed-headers allowed-local-media-path allowed-methods allowed-origins
    anthropic-disabled-thinking-effort api-server-count attention-backend attention-config aux-output-config
    block-size chat-template chat-template-content-format code-revision cohere-format compilation-config
    config config-format convert cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb
    custom-histogram-buckets data-parallel-address data-parallel-backend data-parallel-rank
    data-parallel-rpc-port data-parallel-size data-parallel-size-local data-parallel-start-rank
    data-parallel-supervisor-port dbo-decode-token-threshold dbo-prefill-token-threshold dcp-comm-backend
    dcp-kv-cache-interleave-size decode-context-parallel-size default-chat-template-kwargs default-mm-loras
    device-ids device-memory-utilization diffusion-config disable-access-log-for-endpoints
    distributed-executor-backend distributed-timeout-seconds download-dir
    dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s
    dp-sync-interval dtype ec-manager-config ec-transfer-config elastic-ep-max-dp-size engram-config
    eplb-config expert-placement-strategy fault-tolerance-config fingerprint-mode fingerprint-value
    gdn-prefill-backend generation-config gpu-memory-utilization grpc-port hf-config-path hf-overrides
    hf-token host io-processor-plugin ir-op-priority jit-monitor-mode kda-decode-backend kda-prefill-backend
    kernel-config kv-cache-dtype kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config
    kv-offloading-backend kv-offloading-size kv-transfer-config limit-mm-per-prompt linear-backend load-format
    log-config-file log-level logging-config logprobs-mode long-prefill-token-threshold lora-dtype
    mamba-backend mamba-block-size mamba-cache-dtype mamba-cache-mode mamba-cache-philox-rounds
    mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port max-cpu-loras max-cudagraph-capture-size
    max-log-len max-logprobs max-lora-cls-labels max-lora-rank max-loras max-model-len max-num-active-seqs
    max-num-batched-tokens max-num-queued-reqs max-num-queued-tokens max-num-scheduled-tokens max-num-seqs
    max-parallel-loading-workers media-io-kwargs middleware mm-encoder-attn-backend mm-encoder-attn-dtype
    mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path
    mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-cache-type
    mm-processor-device mm-processor-kwargs mm-shm-cache-max-object-size-mb mm-tensor-ipc model
    model-class-overrides model-impl model-loader-extra-config moe-backend nnodes node-rank
    num-gpu-blocks-override offload-backend offload-group-size offload-num-in-group offload-prefetch-step
    optimization-level otlp-traces-endpoint override-generation-config per-request-spec-decode-metrics
    performance-mode pipeline-parallel-size pooler-config port prefill-context-parallel-size
    prefill-schedule-interval prefix-cache-retention-interval prefix-caching-hash-algo prefix-match-unit
    profiler-config pt-load-map-location quantization quantization-config reasoning-config
    reasoning-effort-map reasoning-parser reasoning-parser-plugin renderer-num-workers replayssm-buffer-len
    response-role revision root-path runner safetensors-load-strategy safetensors-prefetch-block-size
    safetensors-prefetch-num-threads scheduler-cls scheduling-policy seed show-hidden-metrics-for-version
    shutdown-timeout sparse-indexer-topk-backend spec-method spec-model spec-tokens speculative-config
    sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-ciphers ssl-keyfile stream-interval
    structured-outputs-config tensor-parallel-size tokenizer tokenizer-mode tokenizer-revision
    tool-call-parser tool-parser-plugin tool-server tool-strict-level ubatch-size uds uvicorn-log-level
    video-pruning-method video-pruning-rate watermark watermark-config weight-transfer-config worker-cls
    worker-extension-cls
""")
"""Flags with one value."""

GONE_SWITCHES = _names("""
    calculate-kv-scales disable-async-output-proc disable-frontend-multiprocessing disable-log-requests
    disable-logprobs-during-spec-decoding disable-mm-preprocessor-cache
    enable-multimodal-encoder-data-parallel enable-prompt-adapter enable-reasoning engine-use-ray
    full-cuda-graph multi-step-stream-outputs use-v2-block-manager worker-use-ray
""")
"""Switches of earlier versions."""

GONE = _names("""
    block-manager-cls chat-template-text-format cuda-graph-sizes device guided-decoding-backend
    image-feature-size image-input-type image-token-id logits-processor-pattern long-lora-scaling-factors
    lora-extra-vocab-size max-context-len-to-capture max-long-partial-prefills max-num-partial-prefills
    max-prompt-adapter-token max-prompt-adapters max-seq-len-to-capture mm-cache-preprocessor
    ngram-prompt-lookup-max ngram-prompt-lookup-min num-lookahead-slots num-scheduler-steps
    num-speculative-tokens override-neuron-config override-pooler-config preemption-mode
    quantization-param-path rope-scaling rope-theta scheduler-delay-factor spec-decoding-acceptance-method
    speculative-draft-tensor-parallel-size speculative-max-model-len speculative-model swap-space task
    tokenizer-pool-size tokenizer-pool-type typical-acceptance-sampler-posterior-threshold
""")
"""Flags with one value of earlier versions."""

SHORT = {
    "O": "optimization-level", "ac": "attention-config", "asc": "api-server-count", "cc": "compilation-config",
    "dc": "diffusion-config", "dcp": "decode-context-parallel-size", "dp": "data-parallel-size", "dpa": "data-parallel-address",
    "dpb": "data-parallel-backend", "dpe": "data-parallel-external-lb", "dph": "data-parallel-hybrid-lb", "dpl": "data-parallel-size-local",
    "dpm": "data-parallel-multi-port-external-lb", "dpn": "data-parallel-rank", "dpp": "data-parallel-rpc-port", "dpr": "data-parallel-start-rank",
    "ep": "enable-expert-parallel", "n": "nnodes", "pcp": "prefill-context-parallel-size", "pp": "pipeline-parallel-size",
    "q": "quantization", "r": "node-rank", "sc": "speculative-config", "tp": "tensor-parallel-size",
}  # fmt: skip
"""Short names, without their dash."""

ALIASES = {"device-memory-utilization": "gpu-memory-utilization"}

CURRENT = SWITCHES | SEVERAL | VALUED
KNOWN = CURRENT | GONE_SWITCHES | GONE

CURRENT_VERSION = "0.33"
"""The version of vLLM whose flags CURRENT are."""
