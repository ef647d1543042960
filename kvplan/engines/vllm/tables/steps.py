"""Steps that vLLM refuses."""


def too_few_tokens(tokens: int, sequences: int) -> bool:
    """Whether max_num_batched_tokens is too small for max_num_seqs: each running sequence takes a token of a step, or more.

    Source: vLLM 0.33 config/scheduler.py verify_max_model_len.
    """
    return tokens < sequences
