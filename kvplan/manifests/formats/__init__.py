"""The file formats that serve commands are found in, one module each. All of them deliver containers and commands."""
