"""What tasks on other machines tell."""
