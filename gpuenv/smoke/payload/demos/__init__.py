"""Mistakes of programs and their cures, one cause a file.

``WHY`` says why it happens. ``mistake(cp)`` and ``cure(cp)`` answer what came of them, as a text, and whether that is
right; each runs in a process of its own and is printed as it stands here. ``GPUS`` says how many it needs;
``ENVIRONMENT`` and ``LOSES_CONTEXT`` mean what they mean in a test.
"""
