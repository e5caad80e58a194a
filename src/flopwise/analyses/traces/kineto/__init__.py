"""Traces of PyTorch's profiler (Kineto), of CPUs, CUDA and ROCm, as written from 2021 on."""
