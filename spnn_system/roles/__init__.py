"""Coordinator, server, dealer and holder, each a process of its own."""
