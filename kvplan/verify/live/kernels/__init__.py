"""How a step reads its cache and does its small sums: in plain torch, or with kernels."""
