"""How a step reads its cache and does its small sums: plain torch, or kernels."""
