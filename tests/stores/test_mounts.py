"""Which file system a database is on, by tables as Linux prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.stores.sqlite import mounts
from headway.stores.sqlite.mounts import Mount, mount_of, network_warning

TABLE = """\
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /mnt/x nfs4 rw,vers=4.2 0 0
//nas/share /mnt/with\\040space cifs rw 0 0
me@host:/home /home/me/remote fuse.sshfs rw,user_id=1000 0 0
drvfs /mnt/c 9p rw,dirsync 0 0
tmpfs /mnt/x/local tmpfs rw 0 0
ntfs /mnt/usb fuse.ntfs-3g rw 0 0
scratch /lustre lustre rw 0 0
old /data nfs rw 0 0
/dev/vdb /data xfs rw 0 0
half a line
"""


@pytest.mark.parametrize(
    ("path", "point", "kind", "network"),
    [
        ("/home/me/.headway/h.db", "/", "ext4", False),
        ("/mnt/x/project/h.db", "/mnt/x", "nfs4", True),
        ("/mnt/x", "/mnt/x", "nfs4", True),
        ("/mnt/xy/h.db", "/", "ext4", False),
        ("/mnt/x/local/h.db", "/mnt/x/local", "tmpfs", False),
        ("/mnt/with space/h.db", "/mnt/with space", "cifs", True),
        ("/home/me/remote/h.db", "/home/me/remote", "fuse.sshfs", True),
        ("/mnt/c/Users/me/h.db", "/mnt/c", "9p", True),
        ("/mnt/usb/h.db", "/mnt/usb", "fuse.ntfs-3g", False),
        ("/lustre/h.db", "/lustre", "lustre", True),
        ("/data/h.db", "/data", "xfs", False),
    ],
)
def test_the_mount_of_a_path(path: str, point: str, kind: str, network: bool) -> None:
    found = mount_of(path, TABLE)
    assert found == Mount(point, kind)
    assert found.is_network is network


def test_without_a_mount_table_there_is_no_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert mount_of("/h.db", "") is None
    monkeypatch.setattr(mounts, "MOUNTS", tmp_path / "none")
    assert network_warning(tmp_path / "h.db") is None


def test_links_are_resolved_before_the_mount_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path}/far nfs rw 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", table)
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to("far")
    assert network_warning(tmp_path / "h.db") is None
    assert network_warning(tmp_path / "near" / "h.db") == (
        f"the database is on nfs ({tmp_path}/far): locks and durability there depend on the server",
        "put db on a local disk",
    )
