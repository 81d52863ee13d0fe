"""Builds the wheel by meson-python, and names it after the oldest glibc it runs on (PEP 600: manylinux_2_N).

meson-python calls every wheel of Linux linux_x86_64, which says nothing of other machines. What an extension needs of them stands in
it: the libraries that are loaded with it, and the newest version of a symbol that it takes from them. The wheel gets the better name
only if these libraries are the C library's own; else it keeps the one it had."""
import base64
import hashlib
import os
import re
import struct
import zipfile

from mesonpy import *  # noqa: F401, F403  the other hooks of a build are meson-python's
from mesonpy import build_wheel as _build

LIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
DYNAMIC, VERSIONS_NEEDED, NEEDED = 6, 0x6FFFFFFE, 1  # sections of an ELF file, and an entry of the first


def _sections(elf):
    """(type, where it begins, its bytes, the number of the section that has its texts)"""
    at, size, n = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    for k in range(n):
        kind, begin, length, link = struct.unpack_from("<4xI16xQQI", elf, at + k * size)
        yield kind, begin, length, link


def _text(elf, at):
    return elf[at:elf.index(b"\0", at)].decode()


def _needs(elf):
    """(the libraries, the versions of symbols) that a 64-bit ELF file wants to find."""
    sections, libraries, versions = list(_sections(elf)), set(), set()
    for kind, begin, length, link in sections:
        texts = sections[link][1] if kind in (DYNAMIC, VERSIONS_NEEDED) else 0
        if kind == DYNAMIC:
            for tag, value in struct.iter_unpack("<qQ", elf[begin:begin + length]):
                if tag == NEEDED:
                    libraries.add(_text(elf, texts + value))
        while kind == VERSIONS_NEEDED:  # a list of libraries, each with a list of versions
            n, at, following = struct.unpack_from("<2xH4xII", elf, begin)
            at += begin
            for _ in range(n):
                name, after = struct.unpack_from("<8xII", elf, at)
                versions.add(_text(elf, texts + name))
                at += after
            if not following:
                break
            begin += following
    return libraries, versions


def _platform(name, elf):
    """The better name of the platform, or the one it has."""
    if elf[:6] != b"\x7fELF\x02\x01":  # of 64 bits, the lowest byte first
        return name
    libraries, versions = _needs(elf)
    newest = [int(found[1]) for found in (re.fullmatch(r"GLIBC_2\.(\d+)(\.\d+)?", version) for version in versions) if found]
    if libraries - LIBC or not newest:
        return name
    return name.replace("linux_", f"manylinux_2_{max(newest)}_", 1)


def _rename(folder, name):
    """Writes the wheel again under the better name, with the tag in its metadata changed, and returns that name."""
    path = os.path.join(folder, name)
    with zipfile.ZipFile(path) as old:
        files = {entry: old.read(entry) for entry in old.infolist()}
    before = name[:-len(".whl")].rsplit("-", 1)[1]
    after = before
    for entry, data in files.items():
        if entry.filename.endswith(".so"):
            after = _platform(before, data)
    if after == before or not before.startswith("linux_"):
        return name
    better = name.replace(before, after)
    lines = []
    with zipfile.ZipFile(os.path.join(folder, better), "w", zipfile.ZIP_DEFLATED) as new:
        for entry, data in files.items():
            if entry.filename.endswith(".dist-info/RECORD"):
                record = entry
                continue
            if entry.filename.endswith(".dist-info/WHEEL"):
                data = data.replace(before.encode(), after.encode())
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{entry.filename},sha256={digest},{len(data)}\n")
            new.writestr(entry, data, zipfile.ZIP_DEFLATED)
        new.writestr(record, "".join(lines) + f"{record.filename},,\n", zipfile.ZIP_DEFLATED)
    os.remove(path)
    return better


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _rename(wheel_directory, _build(wheel_directory, config_settings, metadata_directory))
