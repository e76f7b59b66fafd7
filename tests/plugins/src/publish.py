"""Makes packages as an index of Python and a registry of npm have them.

publish.py PACKAGES FOLDER URL: PACKAGES/python/NAME/VERSION.py and PACKAGES/npm/NAME/VERSION.js are one module
each. Below FOLDER, which is served at URL, they come into `simple` and `npm`. The same module makes the same bytes,
since a lock file names their digest.
"""

import base64
import hashlib
import io
import json
import pathlib
import struct
import sys
import tarfile
import zipfile
import zlib


def wheel(name, version, module):
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}/__init__.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return f"{package}-{version}-py3-none-any.whl", made.getvalue()


def tarball(described, module):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, text in [("package.json", json.dumps(described)), ("index.js", module)]:
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip(made.getvalue())


def gzip(data):
    """As it is, in one block: what zlib makes of it is another thing on each machine."""
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    block = struct.pack("<BHH", 1, len(data), len(data) ^ 0xFFFF) + data
    return head + block + struct.pack("<II", zlib.crc32(data), len(data))


def main(packages, folder, url):
    for package in packages.glob("python/*"):
        place = folder / "simple" / package.name
        place.mkdir(parents=True, exist_ok=True)
        made = dict(wheel(package.name, file.stem, file.read_text()) for file in package.iterdir())
        for name, content in made.items():
            (place / name).write_bytes(content)
        links = "".join(f'<a href="{name}">{name}</a>\n' for name in sorted(made))
        (place / "index.html").write_text(f"<!DOCTYPE html>\n{links}")
    for package in packages.glob("npm/*"):
        files = folder / "npm" / "files"
        files.mkdir(parents=True, exist_ok=True)
        versions = {}
        for module in sorted(package.iterdir()):
            described = {"name": package.name, "version": module.stem, "main": "index.js"}
            name = f"{package.name}-{module.stem}.tgz"
            content = tarball(described, module.read_text())
            (files / name).write_bytes(content)
            digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
            dist = {"tarball": f"{url}/npm/files/{name}", "integrity": f"sha512-{digest}"}
            versions[module.stem] = {**described, "dist": dist}
        known = {"name": package.name, "dist-tags": {"latest": module.stem}, "versions": versions}
        (folder / "npm" / package.name).write_text(json.dumps(known))


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
