"""Checking a bundle and installing it, with Python alone: no network, no compiler, no packages.

`localrag bundle verify`, `install` and `create` use these modules where localrag is installed, and
`localrag.bundle.packing` packs them, with the few others of localrag that they import, into the
`install.py` of every bundle. So they import the standard library and each other only.
"""
