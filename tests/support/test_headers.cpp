// This file only carries the precompiled headers of all tests.
