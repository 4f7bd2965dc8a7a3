"""The raw protocol buffer messages and gRPC stubs of Pawl, as generated."""
