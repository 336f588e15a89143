# SPDX-License-Identifier: BSD-3-Clause
"""A PEP 517 and PEP 660 backend for this one package: plain files, so a wheel is a zip of them."""
import base64
import hashlib
import io
import os
import re
import tarfile
import zipfile

PACKAGE = "nvmfr"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIP_FOLDERS = {"__pycache__", ".mypy_cache", "build"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same tree makes the same wheel


def project_field(name):
    """A plain string of [project]. tomllib came with Python 3.11 only."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        section = file.read().split("[project]", 1)[1].split("\n[", 1)[0]
    return re.search(rf'^{name} = "([^"]*)"$', section, re.MULTILINE).group(1)


def metadata():
    """The text of METADATA."""
    return (f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {project_field('version')}\n"
            f"Summary: {project_field('description')}\nLicense: BSD-3-Clause\n"
            f"Requires-Python: {project_field('requires-python')}\n")


def info_folder():
    """The name of the .dist-info folder."""
    return f"{PACKAGE}-{project_field('version')}.dist-info"


WHEEL = "Wheel-Version: 1.0\nGenerator: nvmfr_build\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def tree(folder):
    """The files below a folder of ROOT, by their path from ROOT on."""
    for path, folders, names in os.walk(os.path.join(ROOT, folder)):
        folders[:] = sorted(set(folders) - SKIP_FOLDERS)
        for name in sorted(names):
            if not name.endswith((".pyc", "~")):
                yield os.path.relpath(os.path.join(path, name), ROOT)


def read(path):
    """The bytes of a file of ROOT."""
    with open(os.path.join(ROOT, path), "rb") as file:
        return file.read()


def write_wheel(folder, contents):
    """Writes a wheel of those contents (name: bytes) and what each wheel has. Returns its name."""
    info = info_folder()
    contents = {**contents, f"{info}/METADATA": metadata().encode(),
                f"{info}/WHEEL": WHEEL.encode()}
    record = ""
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"{PACKAGE}-{project_field('version')}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517."""
    return write_wheel(wheel_directory, {path: read(path) for path in tree(PACKAGE)})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 660: a path file that leads to this tree."""
    return write_wheel(wheel_directory, {f"{PACKAGE}.pth": (ROOT + "\n").encode()})


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517: what is known without building."""
    info = info_folder()
    os.makedirs(os.path.join(metadata_directory, info), exist_ok=True)
    for name, text in (("METADATA", metadata()), ("WHEEL", WHEEL)):
        with open(os.path.join(metadata_directory, info, name), "w", encoding="utf-8") as file:
            file.write(text)
    return info


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517."""
    base = f"{PACKAGE}-{project_field('version')}"
    name = f"{base}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz") as file:
        for path in ["pyproject.toml", *tree(PACKAGE), *tree("backend")]:
            file.add(os.path.join(ROOT, path), f"{base}/{path}")
        info = tarfile.TarInfo(f"{base}/PKG-INFO")
        data = metadata().encode()
        info.size = len(data)
        file.addfile(info, io.BytesIO(data))
    return name
