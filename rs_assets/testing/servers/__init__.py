"""Real servers on loopback for tests, demonstrations and benchmarks, and stubs of services; none needs a container."""
