# task: Merge the base configuration with the overrides and list what changed.
# expects: {"config": {"host": "example.org", "port": 8443, "tls": true, "retries": 3}, "changed": ["port", "tls"]}
base = {"host": "example.org", "port": 80, "tls": False}
overrides = {"port": 8443, "tls": True, "retries": 3}

config = base | overrides
changed = sorted(k for k in base.keys() & overrides.keys() if base[k] != overrides[k])
{"config": config, "changed": changed}
