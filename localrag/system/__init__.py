"""What is asked of the operating system: files, processes, rights, disks."""
