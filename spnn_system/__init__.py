"""zhou2021 with every role in a process of its own: frames, certificates, shaped links, roles, and
what they cost.
"""
