// This file exists only for the precompiled headers of all tests.
