"""Notes of what a fit does: values that are read, charges, arrays that joblib writes to disk."""

from _support.planted import original, put

__all__ = ["NotingRows", "note_charges", "note_written_arrays"]


class NotingRows(list):
    """Rows that call a function whenever one of them is read."""

    def __init__(self, rows, note):
        super().__init__(rows)
        self.note = note

    def __getitem__(self, key):
        self.note()
        return super().__getitem__(key)

    def __iter__(self):
        self.note()
        return super().__iter__()


def note_charges(monkeypatch, place, seen):
    """Append "charge" to a list for each charge of the protection at a place of `planted`."""
    honest = original(place)

    def charge(*args, **how):
        if how.get("record", True):  # else the budget is only compared
            seen.append("charge")
        return honest(*args, **how)

    put(monkeypatch, place, charge)


def note_written_arrays(monkeypatch):
    """Return a list that gets a copy of each array that joblib writes for its workers."""
    import joblib._memmapping_reducer as reducer

    written, dump = [], reducer.dump
    monkeypatch.setattr(
        reducer,
        "dump",
        lambda a, *args, **k: (written.append(a.copy()), dump(a, *args, **k))[1],
    )
    return written
