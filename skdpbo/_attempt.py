"""The one ``except`` of everything that is computed from protected records."""


def attempt(function, *args, **kwargs):
    """Call a function that may raise anything.

    An exception that a protected record has caused, of whatever class, may quote the record and
    must not end the fit. Only the caller's own interrupt does: it is raised anew, so that no text,
    traceback or context of the first one is left.

    Parameters
    ----------
    function : callable
    *args, **kwargs
        Of the call.

    Returns
    -------
    result : object
        None after an error.
    error : BaseException or None
        Protected where an argument is: drop it.
    """
    try:
        return function(*args, **kwargs), None
    except BaseException as error:
        interrupt = type(error)
        # Exact classes: anything derived from them is not the caller's own.
        if interrupt not in (KeyboardInterrupt, GeneratorExit):
            return None, error
    raise interrupt
