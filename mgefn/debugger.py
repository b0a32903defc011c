"""The console that `debug.breakpoint` opens: looks at the values of a program while it runs."""

from __future__ import annotations

import cmd
import linecache
import os
import pprint
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

__all__ = ["Console", "FrameView", "Quit"]


class Quit(Exception):
    """The user left the console with `quit`: the program ends."""


@dataclass
class FrameView:
    """A frame of the user's program as it stood at the breakpoint, with values for tracers."""

    filename: str
    function: str
    line: int
    locals: dict[str, Any] = field(default_factory=dict)
    globals: dict[str, Any] = field(default_factory=dict)


class Console(cmd.Cmd):
    """Reads commands until one of them continues or ends the program.

    Anything that is no command is evaluated in the frame. Frames go from the innermost outwards.
    """

    prompt = "(mgefn) "
    intro = None

    def __init__(
        self,
        frames: Sequence[FrameView],
        completekey: str = "tab",
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
    ) -> None:
        super().__init__(completekey, stdin, stdout)
        # With a stream of its own, cmd must not read the terminal by input().
        self.use_rawinput = stdin is None
        self.frames = list(frames)
        self.place = 0
        self.quits = False

    def run(self) -> None:
        """Read commands; raises `Quit` where the user ends the program."""
        self.do_where("1")
        self.cmdloop()
        if self.quits:
            raise Quit("debug.breakpoint: the program was ended in the console.")

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _value(self, text: str) -> Any:
        frame = self.frames[self.place]
        return eval(text, {**frame.globals, **frame.locals})  # the user's own words

    def _show(self, text: str, form: Any) -> None:
        try:
            self._say(form(self._value(text)))
        except Exception:  # whatever the user's expression raises is shown, and the console stays
            self._say(traceback.format_exc(limit=0).strip())

    def emptyline(self) -> bool:
        """An empty line does nothing."""
        return False

    def default(self, line: str) -> bool | None:  # type: ignore[override]  # cmd tests the result
        """Evaluate what is no command; the end of the input continues the program."""
        if line == "EOF":
            return True
        self._show(line, repr)
        return None

    def do_p(self, arg: str) -> None:
        """p expression: print its value."""
        self._show(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp expression: print its value, laid out."""
        self._show(arg, pprint.pformat)

    def do_args(self, arg: str) -> None:
        """args: the names of the frame's local variables and their values."""
        for name, value in self.frames[self.place].locals.items():
            self._say(f"{name} = {value!r}")

    def do_list(self, arg: str) -> None:
        """list: the source around the line."""
        frame = self.frames[self.place]
        for n in range(max(1, frame.line - 5), frame.line + 6):
            text = linecache.getline(frame.filename, n)
            if text:
                self._say(f"{'->' if n == frame.line else '  '} {n:4d} {text.rstrip()}")

    def do_where(self, arg: str) -> None:
        """where: the frames from the innermost outwards, the current one marked."""
        shown = self.frames[: int(arg)] if arg.isdigit() else self.frames
        for i, frame in enumerate(shown):
            name = os.path.basename(frame.filename)
            mark = "> " if i == self.place else "  "
            self._say(f"{mark}{name}:{frame.line} ({frame.function})")

    def _move(self, by: int) -> None:
        if not 0 <= self.place + by < len(self.frames):
            self._say("There is no frame further " + ("out." if by > 0 else "in."))
            return
        self.place += by
        self.do_where("")

    def do_up(self, arg: str) -> None:
        """up: go to the frame that called this one."""
        self._move(1)

    def do_down(self, arg: str) -> None:
        """down: go back to the frame that this one called."""
        self._move(-1)

    def do_continue(self, arg: str) -> bool:
        """continue: let the program go on."""
        return True

    def do_quit(self, arg: str) -> bool:
        """quit: end the program by an exception."""
        self.quits = True
        return True

    do_a, do_bt, do_c, do_d, do_l, do_q, do_u, do_w = (
        do_args,
        do_where,
        do_continue,
        do_down,
        do_list,
        do_quit,
        do_up,
        do_where,
    )
