"""What concerns the folder of a library on disk: who may enter, write and trust it, and where."""
