"""Conformance suite: any gemmd daemon, any device, over the public API.

From tests/:  python3 -m conformance --target localhost:50051
"""
