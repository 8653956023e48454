"""The errors of the library, one base per layer.

    IngesterError                  anything this package raises on purpose; says what to do about it
    ├── ConfigurationError         a setting is wrong; names the setting and the fix
    │   ├── DatabaseAwayError      PostgreSQL takes no connection at the moment
    │   ├── InvalidSettings        one or more settings are wrong; a line for each
    │   ├── MissingPackageError    a package is not installed; names the extra that brings it
    │   └── ForeignWeightsError    a package holds other weights than this release was made for
    ├── InvalidInputError          a value that somebody gave is wrong; names the field and the fix
    │   ├── PayloadTooLargeError   a signal's payload is larger than a signal may be; names the limit
    │   ├── BadFieldError          a field of a segmentation job has a value that it cannot have
    │   ├── GoalError              a goal, or its tasks, cannot be executed; a PermanentError too
    │   │   └── NotUnderstoodError no rule understands a part of a goal
    │   ├── InputRefusedError      an `input_uri` that may not be fetched, or where nothing is
    │   └── InvalidStepOptionError a step's parameter is wrong; a PermanentError too
    ├── NotFoundError              a named thing does not exist
    │   ├── DocumentURINotFoundError no document lives at this URI of this source
    │   ├── VersionNotFoundError   the URI never had such a version
    │   └── UnknownDefinitionError nothing defines this workflow or parameter set; names those there are
    ├── ConflictError              the thing is in a state that forbids the request
    │   ├── BeingRemovedError      the same content is being deleted at this moment
    │   ├── VersionGoneError       a version of which too little is stored any more
    │   ├── NotParsedError         a version that has no text to read or compare
    │   ├── ProtectedParameterSetError a parameter set that was shipped, or that runs still use
    │   ├── RagUnusableError       a RAG database cannot be opened: half created, damaged, or of another version
    │   ├── LeaseLostError         a worker outside no longer holds the step under its lease
    │   └── LockedError            another holds it for now
    │       ├── DatabaseBusyError  another process writes to the SQLite database
    │       ├── RagLockedError     another writer holds the RAG database
    │       └── LockLostError      the lock of a resource has gone to another while something was written under it
    ├── ForbiddenAddressError      a URL leads to an address that nobody outside may make us talk to
    ├── DatabaseTroubleError       the database cannot do its work; says what to do
    ├── RagTroubleError            LanceDB could not read or write a RAG database now; says what to do
    ├── NotInitializedError        the database is used before it is opened, or after it was closed
    ├── UnreadablePDFError         PDFium cannot open it
    ├── ParserUnavailableError     no docling-serve works now; trying again may help
    │   └── ParserGaveUpError      the servers work, and yet this document came to nothing
    ├── FetchFailedError           a document could not be fetched now; trying again may help
    ├── TooMuchWorkError           what one request asks for takes too much time or memory
    ├── BusyError                  too many others wait for the process that does such work
    ├── StepFailedError            a shipped step of a goal could not do its work now; it is tried again
    ├── UnsupportedTypeError       no parser reads the kind of a segmentation job's document
    ├── StorageError               the bytes of documents
    │   ├── DocumentTooLargeError  more bytes than are accepted; names the limit
    │   │   └── NoRoomError        the disk could not hold it
    │   ├── StoreUnavailableError  the store does not work now; trying again may help
    │   ├── DamagedBlobError       what is stored is not what was stored
    │   └── InvalidKeyError        a key that would leave the store
    ├── EmbeddingError             a provider of embeddings
    │   ├── EmbedderUnavailableError it cannot embed now; trying again may help
    │   └── EmbeddingRefusedError  it will never embed this; a PermanentError too
    ├── ChatError                  a language model
    │   ├── ChatUnavailableError   it does not answer now; trying again may help
    │   ├── UnusableAnswerError    its answers do not fit; asked once more, it may answer otherwise
    │   └── ChatRefusedError       it will never answer this; a PermanentError too
    ├── LanguageServiceError       Google Cloud Translate did not tell a language; the next is asked
    ├── NotOpenError               an ingester is used outside its block
    ├── NotStoredAgainError        a document was rolled back, and a RAG database could not follow
    ├── FileRefusedError           one file cannot be ingested; others can
    ├── ArchiveRefusedError        nothing of an archive can be ingested
    ├── UnauthorizedError          a request does not say who sends it, or says it wrongly
    ├── MissingScopeError          who sends a request is known, and may not do this
    ├── ForeignHostError           a request names a host that is not this server
    ├── ForeignOriginError         a browser sends a request for a page of another origin
    ├── SilentBrowserError         a browser does not say for which page it sends a request
    ├── RateLimitedError           a client sends more than it may
    ├── RemoteError                a server refused what was asked, or did not answer
    │   ├── RemoteNotFoundError    a NotFoundError too
    │   └── RemoteConflictError    a ConflictError too
    └── EngineError                the workflow engine
        ├── DefinitionError        a workflow or parameter file is wrong; names file, line and key
        │   └── CycleError         the steps depend on one another in a circle; names the circle
        ├── LeaseLost              another worker owns the step now
        ├── CannotExecute          this worker lacks what a step needs; another may have it
        ├── WorkerLost             a loop of a worker has ended though nobody told it to
        ├── PermanentError         raised by handlers: trying again cannot help
        │   ├── InvalidDocumentError   the document cannot be read: empty, cut off, encrypted, a bomb, ...
        │   ├── UnsupportedFormatError the parser does not read this kind of document
        │   ├── EmbeddingMismatchError a RAG database holds vectors of another model
        │   ├── ParseFailedError       the parser gave up on this document
        │   │   └── HarmfulDocumentError reading it crashed, stalled or filled the process that did it
        │   │       └── OutOfTimeError reading it took longer than its step may
        │   └── ParserMissingError     the parser is not installed; names what to install
        ├── FailedOutside          a worker of a queue says that the step has failed, or none has finished it
        ├── RunFailed              a run that somebody waited for has failed or was cancelled
        ├── StepTimeout            an attempt took longer than the step allows
        ├── StepCancelled          the run was cancelled while the attempt was under way
        ├── HandlerError           stands in for what a handler's process raised, if that cannot be pickled
        ├── HandlerCrashed         the handler's process died during the call
        ├── MemoryLimitExceeded    the handler's process wanted more memory than it may use
        └── PoolStopped            the worker stopped before the handler had finished

The command line maps these to exit codes, the server to HTTP statuses, each in one table.
"""

from __future__ import annotations

from typing import Any, override


class IngesterError(Exception):
    """Base of every error this package raises on purpose; its text is fit to be shown to a person."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        # An error crosses processes with its facts and its text, whatever the arguments of its constructor.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[IngesterError], args: tuple[Any, ...], facts: dict[str, Any]) -> IngesterError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class ConfigurationError(IngesterError):
    """A setting is wrong. The message is one line that names the setting and the fix."""

    def __init__(self, setting: str, problem: str, fix: str) -> None:
        super().__init__(f"{setting}: {problem}; {fix}")
        self.setting = setting
        self.problem = problem
        self.fix = fix


class MissingPackageError(ConfigurationError):
    """Something that runs in this process needs a package that is not installed."""

    def __init__(self, package: str, purpose: str, *, extra: str = "local") -> None:
        otherwise = ", or choose a provider that is reached over HTTP" if extra == "local" else ""
        fix = f'install "soliplex-ingester[{extra}]"{otherwise}'
        super().__init__(package, f"the package is not installed, and {purpose} needs it", fix)


class InvalidInputError(IngesterError):
    """A value that somebody gave is wrong. The message names the field, and says what it should be."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class NotFoundError(IngesterError):
    """Nothing has this name."""

    def __init__(self, kind: str, name: object, *, hint: str | None = None) -> None:
        text = f"{kind} {name!r} does not exist"
        super().__init__(f"{text}; {hint}" if hint else text)
        self.kind = kind
        self.name = name


class DocumentURINotFoundError(NotFoundError):
    """No document lives at this URI of this source."""

    def __init__(self, uri: str, source: str, *, hint: str | None = None) -> None:
        super().__init__("document URI", uri)
        text = f"document URI {uri!r} of source {source!r} does not exist"
        self.args = (f"{text}; {hint}" if hint else text,)
        self.uri = uri
        self.source = source


class ConflictError(IngesterError):
    """The thing exists, but its state forbids what was asked."""


class LockedError(ConflictError):
    """Another holds the thing for now; later it may be free."""


class EngineError(IngesterError):
    """Base of the workflow engine's errors."""
