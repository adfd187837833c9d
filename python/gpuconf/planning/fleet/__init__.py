"""How many cards hold many recorded jobs, and which jobs share a card."""
