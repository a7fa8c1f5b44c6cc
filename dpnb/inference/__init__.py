"""What past answers tell about new questions (Xiao and Xiong)."""
