"""Where exact integer vectors are computed; nothing here leaves the curator."""
