// Carries the precompiled headers of all tests; has no tests itself.
