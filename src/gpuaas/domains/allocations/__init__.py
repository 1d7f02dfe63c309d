"""Allocations: from request to proven GPU to clean release. What crosses domains is told in `gpuaas.flows`."""
