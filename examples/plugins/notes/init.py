#!/usr/bin/env python3
"""Makes the folder of notes. A new revision takes over the notes that there are."""

from pathlib import Path

notes = Path("notes")
notes.mkdir(exist_ok=True)
print(f"{len(list(notes.glob('*.txt')))} notes are kept")
