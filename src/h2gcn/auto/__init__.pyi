from .choosing import Choice as Choice, choose as choose
from .contest import (
    Contest as Contest,
    Progress as Progress,
    hold_contest as hold_contest,
)
from .leaderboard import (
    Leaderboard as Leaderboard,
    Standing as Standing,
    make_leaderboard as make_leaderboard,
    render_leaderboard as render_leaderboard,
)
from .portfolio import (
    Member as Member,
    default_time_limit as default_time_limit,
    find_portfolio as find_portfolio,
)
