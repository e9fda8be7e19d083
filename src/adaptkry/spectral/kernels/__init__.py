"""Sparse products and fused kernels, for the CPU and in Triton for GPUs."""
