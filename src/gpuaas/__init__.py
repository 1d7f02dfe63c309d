"""GPUaaS: a control plane that turns a rack of GPU servers into a cloud.

Folder order is dependency order: processes, flows, domains, infra, ports, client, contracts, kit.
"""

__version__ = "0.1.0"
