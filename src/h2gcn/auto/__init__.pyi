from .contest import (
    Choice as Choice,
    Contest as Contest,
    Progress as Progress,
    choose as choose,
    class_folds as class_folds,
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
    quick_members as quick_members,
)
