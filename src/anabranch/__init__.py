"""Typed graphs over values and streams, and LLM agents built on them."""

__version__ = "0.1.0"
