"""The commands, one file each; heavy libraries are imported when a command runs."""
