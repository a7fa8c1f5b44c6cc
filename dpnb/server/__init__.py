"""Tables as a service: HTTP and JSON, for analysts who must not have the data."""
