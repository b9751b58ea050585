from .outputs import (
    RUNS as RUNS,
    check_protocol as check_protocol,
    make_folder as make_folder,
    write_result as write_result,
)
from .page import (
    count_cells as count_cells,
    render_html as render_html,
    summary_line as summary_line,
)
from .result_files import read_results as read_results
from .table_screen import show as show
