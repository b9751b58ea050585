from .figures import (
    digest as digest,
    draw as draw,
    why_no_figures as why_no_figures,
)
from .report_page import (
    count_cells as count_cells,
    render_html as render_html,
    summary_line as summary_line,
)
from .result_files import (
    RUNS as RUNS,
    check_protocol as check_protocol,
    read_result as read_result,
    read_results as read_results,
    write_result as write_result,
)
from .tables import (
    category as category,
    markdown_grid as markdown_grid,
    ours as ours,
    show as show,
    verdict as verdict,
)
