"""Messages between roles: frames, certificates, shaped links, and the endpoint that sends and
receives.
"""
