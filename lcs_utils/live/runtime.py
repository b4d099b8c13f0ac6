"""onnxruntime-web, which runs our nets in a browser: downloaded from npm once, verified, with its license.

It is not part of the repository but kept under runs/, so that only the first build needs the network.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from lcs_utils import paths, store

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
INTEGRITY = (
    "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="  # SHA-512
)
SCRIPT, BINARY = "ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"
PATIENCE = 600  # seconds that npm may take
# The package names its license (MIT, in package.json and on top of its files) without the text, which is:
LICENSE = """{package} {version}, from https://www.npmjs.com/package/{package}/v/{version}
{repository}
The package's own words: "license": "{license}". Its files in this folder, compressed: {files}.

MIT License

Copyright (c) Microsoft Corporation. All rights reserved.

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

Third-party notices of the libraries inside its WebAssembly: ThirdPartyNotices.txt in the source
repository above.
"""


class RuntimeMissing(RuntimeError):
    """Why onnxruntime-web is not available here, and what to do about it."""


class Runtime(NamedTuple):
    """The script and the WebAssembly as bytes, and the license text."""

    script: bytes
    binary: bytes
    license: str


def archive() -> Path:
    """The package as packed by npm, verified. Raises RuntimeMissing without Node or a network, or if the hash
    differs.
    """
    kept = paths.RUNS / "npm" / f"{PACKAGE}-{VERSION}.tgz"
    if not kept.exists():
        if not (shutil.which("node") and shutil.which("npm")):
            raise RuntimeMissing(
                "Node is missing (node and npm; Debian: apt install nodejs npm), which brings "
                f"{PACKAGE} {VERSION}"
            )
        with tempfile.TemporaryDirectory() as scratch:
            command = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
            try:
                subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=PATIENCE)
            except (subprocess.SubprocessError, OSError) as error:
                said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
                why = said[-1] if said else type(error).__name__
                raise RuntimeMissing(
                    f"`{' '.join(command)}` failed ({why}); is the npm registry reachable?"
                ) from error
            [packed] = Path(scratch).glob("*.tgz")
            check(packed)
            with store.atomic_path(kept) as temporary:
                shutil.copyfile(packed, temporary)
    check(kept)
    return kept


def check(packed: Path) -> None:
    """Raise RuntimeMissing unless the archive's SHA-512 is that of the version chosen here."""
    found = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise RuntimeMissing(
            f"{paths.shown(packed)} has SHA-512 {found[:16]}..., expected {INTEGRITY[:16]}...; "
            "remove it, build again"
        )


def load() -> Runtime:
    """The single-threaded CPU runtime. Raises RuntimeMissing as `archive`."""
    with tarfile.open(archive()) as packed:

        def read(name):
            return packed.extractfile(f"package/{name}").read()

        about = json.loads(read("package.json"))
        script, binary = read(f"dist/{SCRIPT}"), read(f"dist/{BINARY}")
    words = LICENSE.format(
        package=PACKAGE,
        version=VERSION,
        license=about["license"],
        repository=about["repository"]["url"],
        files=f"{SCRIPT}, {BINARY}",
    )
    return Runtime(script, binary, words)
