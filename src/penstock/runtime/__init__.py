"""Process basics without any domain: lifecycle, owned tasks, errors for users, times, rates, files, sockets, hosts."""
