from .answers import Answers as Answers
from .app import bind as bind, build_app as build_app, run as run
from .guards import (
    Limits as Limits,
    is_loopback as is_loopback,
    make_token as make_token,
    read_token as read_token,
)
