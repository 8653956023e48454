"""A folder that is a package, so that its server ends with its last test and not with the session."""
