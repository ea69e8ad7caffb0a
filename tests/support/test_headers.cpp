// Carries the precompiled headers of all tests; has none of its own.
