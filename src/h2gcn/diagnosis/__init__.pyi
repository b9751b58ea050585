from .auditing import audit as audit
from .diagnosing import (
    ClassShare as ClassShare,
    Diagnosis as Diagnosis,
    diagnose as diagnose,
)
from .page import (
    STEPS as STEPS,
    heat_palette as heat_palette,
    render_html as render_html,
)
