# SPDX-License-Identifier: Apache-2.0
"""What is different in a cover, by situation, with the reasons. What is not in this table fails the tests.

``python known.py`` prints it as a table for the documentation.
"""

import fnmatch

# Of 100 kinds, how many must behave in each situation as they do without a cover.
AT_LEAST = {
    "root": 98,
    "user": 95,
    "user with mounts below": 95,
    "supplementary group": 70,
    "landlock": 88,
    "inside bubblewrap": 88,
}

OVERLAYS = ("root", "user", "user with mounts below", "supplementary group")
USERS = ("user", "user with mounts below", "supplementary group")

# Reason: situations, and patterns of the names of kinds.
KNOWN: dict[str, tuple[tuple[str, ...], str]] = {
    "copy_file_range fails (EXDEV) from a file that was there before to one that the program wrote": (
        OVERLAYS,
        "copy-file-range",
    ),
    "hard links of files that were there before are files of their own once one of them is written": (
        OVERLAYS,
        "hard-linked-file*",
    ),
    "opening a file for writing, without a write and after a change of its mode, time or name, gives it a new time": (
        ("root",),
        "chmod-then-opened",
    ),
    "without mounts, writes outside the working folder fail (EACCES), and /dev/shm is another": (
        ("landlock", "inside bubblewrap"),
        "home-folder cache-folder tmp-by-absolute-path between-folders folder-that-is-not-ours dev-shm-by-path",
    ),
    "a user's rename of a folder that was there before fails (EXDEV), so that mv and shutil.move copy it": (
        USERS,
        "rename-folder",
    ),
    "files of others in a folder that a group writes to are the user's own inside: chmod and utime work": (
        ("supplementary group",),
        "read-only-file big-attributes copy-over last-copied-to-best copy-parts copytree best-deleted chmod* chown "
        "utime "
        "pathlib-all temporary-folder touch-program git-new folder-descriptor torch-save-and-copy",
    ),
}

# Errors with which an operation of a random program may fail in a cover, whatever it does without.
ERRORS: dict[str, dict[str, str]] = {name: {"EXDEV": "a rename of a folder that was there before"} for name in USERS}

# Where a file of a random program may have a new time at the end, since it was opened for writing (a row of KNOWN).
NEW_TIMES = ("root",)


def reason(situation: str, kind: str) -> str:
    """Why a kind is different in a situation, or nothing."""
    for why, (situations, names) in KNOWN.items():
        if situation in situations and any(fnmatch.fnmatchcase(kind, name) for name in names.split()):
            return why
    return ""


if __name__ == "__main__":
    print("| What is different | Where | Kinds of writes |\n|---|---|---|")
    for what, (where, which) in KNOWN.items():
        print(f"| {what} | {', '.join(where)} | {', '.join(which.split())} |")
