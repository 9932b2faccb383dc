"""The file system of a path, and whether it is a network file system. Linux only: on other systems nothing is known.

SQLite needs locks and shared memory that work between processes, and an fsync that is durable. On a network file system these
depend on the server and on mount options, so the user is warned. `mount_of` is pure.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

#: Types of file systems that are served by another machine, or by the host of a virtual one.
NETWORK: Final = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "smb2", "9p", "afs", "ncpfs", "coda", "lustre", "ceph", "glusterfs", "gpfs", "beegfs",
    "orangefs", "pvfs2", "davfs", "vboxsf", "vmhgfs", "prl_fs", "virtiofs",
})  # fmt: skip
#: The same in user space, as `fuse.NAME`. Local file systems in user space are not listed.
NETWORK_FUSE: Final = frozenset({
    "sshfs", "s3fs", "s3ql", "goofys", "gcsfuse", "blobfuse", "blobfuse2", "rclone", "glusterfs", "ceph", "ceph-fuse", "davfs",
    "davfs2", "smbnetfs", "juicefs", "JuiceFS", "mount-s3", "mountpoint-s3", "seaweedfs", "vmhgfs-fuse", "curlftpfs", "cvmfs2",
    "moosefs", "mfs", "lizardfs", "google-drive-ocamlfuse",
})  # fmt: skip

MOUNTS: Final = Path("/proc/self/mounts")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """Where a file system is mounted, and its type."""

    point: str
    kind: str

    @property
    def is_network(self) -> bool:
        """Whether another machine serves it."""
        return self.kind in NETWORK or (
            self.kind.startswith("fuse.") and self.kind.removeprefix("fuse.") in NETWORK_FUSE
        )


def mount_of(path: str, table: str) -> Mount | None:
    """The mount of an absolute, resolved path, from a table in the format of /proc/mounts."""
    found: Mount | None = None
    for line in table.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        mount = Mount(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[1]), fields[2])
        # Of several mounts on one point, the last one hides the others.
        if _is_below(path, mount.point) and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def _is_below(path: str, point: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def network_warning(path: Path) -> tuple[str, str] | None:
    """A warning and a hint if a database is on a network file system."""
    try:
        table = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    mount = mount_of(os.path.realpath(path), table)
    if mount is None or not mount.is_network:
        return None
    warning = (
        f"the database is on {mount.kind} ({mount.point}): locks and durability there depend on the server"
    )
    return warning, "put db on a local disk"
