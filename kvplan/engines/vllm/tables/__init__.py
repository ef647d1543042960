"""What differs from release to release and from class to class, as data."""
